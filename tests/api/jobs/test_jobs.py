"""/jobs: DAGs, batches, lists and cancellation."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from dalston_queue.api.schemas.jobs import MAX_RESULTS_BYTES
from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.models import Job, OperatorAction, Project, Task, TaskEvent
from tests.api.conftest import Api
from tests.jobs import make
from tests.orchestrator.support import engine
from tests.support import wait_until
from tests.web import Web

DAG = {
    "name": "audio",
    "priority": "high",
    "stages": [
        {"stage": "split"},
        {"stage": "transcribe_ch0", "after": ["split"], "weight": 3, "parameters": {"channel": 0}},
        {"stage": "notes", "after": ["transcribe_ch0"], "required": False, "priority": "low"},
    ],
}


def test_a_dag_is_stored_whole(api: Api) -> None:
    answer = api.post("/jobs", DAG)
    assert answer.status_code == 201, answer.content
    job = answer.json()
    assert (job["name"], job["status"], job["priority"], job["project"]) == ("audio", "pending", "high", "alpha")
    assert [task["stage"] for task in job["tasks"]] == ["split", "transcribe_ch0", "notes"]
    assert [task["queue"] for task in job["tasks"]] == ["split", "transcribe", "notes"]
    assert [task["priority"] for task in job["tasks"]] == ["high", "high", "low"]
    assert Task.objects.get(stage="transcribe_ch0").after == ["split"]
    assert api.get(f"/jobs/{job['job_id']}").json() == job


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "pipeline or stages"),
        ({"stages": [{"stage": "a"}]}, "name"),
        ({"name": "x", "pipeline": "y", "stages": [{"stage": "a"}]}, "not both"),
        ({"pipeline": "nosuch"}, "nosuch"),
        ({"name": "x", "stages": [{"stage": "a", "after": ["b"]}]}, "'b'"),
        (
            {"name": "x", "stages": [{"stage": "a", "after": ["b"]}, {"stage": "b", "after": ["a"]}]},
            "wait for each other",
        ),
        ({"name": "x", "stages": [{"stage": "a"}, {"stage": "a"}]}, "twice"),
        ({"name": "x", "stages": [{"stage": "a", "weight": 0}]}, "weight"),
        ({"name": "x", "stages": [{"stage": "a", "concurrency_key": "*"}]}, "stages.0.concurrency_key: "),
        ({"name": "x", "stages": [{"stage": "a"}], "concurrency_key": " a"}, "concurrency_key: "),
        ({"name": "x", "stages": [{"stage": "a", "scheduled_at": "9999-12-31T23:59:59-10:00"}]}, "ten years"),
    ],
)
def test_an_invalid_job_is_refused_with_the_reason(api: Api, body: object, message: str) -> None:
    answer = api.post("/jobs", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert message in answer.json()["detail"]
    assert not Job.objects.exists()


def test_stages_have_the_concurrency_key_of_their_job_unless_they_name_one(api: Api) -> None:
    keyed = {"name": "x", "concurrency_key": "42", "stages": [{"stage": "a"}, {"stage": "b", "concurrency_key": "43"}]}
    job = api.post("/jobs", keyed).json()
    assert [task["concurrency_key"] for task in job["tasks"]] == ["42", "43"]
    [item] = api.post("/jobs:batch", {"jobs": [keyed]}).json()["items"]
    tasks = api.get(f"/jobs/{item['job_id']}").json()["tasks"]
    assert [task["concurrency_key"] for task in tasks] == ["42", "43"]


def test_a_job_with_another_concurrency_key_is_another_request(api: Api) -> None:
    assert api.post("/jobs", DAG, **{"Idempotency-Key": "k"}).status_code == 201
    other = api.post("/jobs", {**DAG, "concurrency_key": "42"}, **{"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


def test_a_key_makes_a_job_once(api: Api) -> None:
    first, again = (api.post("/jobs", DAG, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["job_id"] == again.json()["job_id"]
    assert api.post("/jobs", {**DAG, "priority": "low", "idempotency_key": "k"}).status_code == 409


def test_a_batch_accepts_and_refuses_each_for_itself_in_order(api: Api) -> None:
    good = {"name": "one", "stages": [{"stage": "echo"}]}
    answer = api.post(
        "/jobs:batch",
        {
            "jobs": [
                {**good, "idempotency_key": "a"},
                {"name": "bad", "stages": [{"stage": "x", "after": ["nosuch"]}]},
                {"pipeline": "nosuch"},
                {**good, "idempotency_key": "a"},
                {**good, "priority": "low", "idempotency_key": "a"},
                good,
            ]
        },
    )
    assert answer.status_code == 200, answer.content
    batch = answer.json()
    assert (batch["accepted"], batch["refused"]) == (3, 3)
    assert [item["code"] for item in batch["items"]] == [None, "invalid", "invalid", None, "idempotency_conflict", None]
    assert [item["created"] for item in batch["items"]] == [True, False, False, False, False, True]
    assert batch["items"][0]["job_id"] == batch["items"][3]["job_id"]
    assert Job.objects.count() == 2


def test_an_invalid_job_does_not_refuse_the_rest_of_its_batch(api: Api) -> None:
    good = {"name": "one", "stages": [{"stage": "echo"}]}
    bad = [{"name": "bad", "stages": []}, {**good, "colour": "red"}, "job", {**good, "stages": [{"stage": 1, "x": 2}]}]
    answer = api.post("/jobs:batch", {"jobs": [good, *bad, good]})
    assert answer.status_code == 200, answer.content
    items = answer.json()["items"]
    assert [item["code"] for item in items] == [None, *["invalid"] * len(bad), None]
    details = [item["detail"] for item in items[1:-1]]
    assert "either pipeline or stages is needed" in details[0]
    assert details[1] == "colour: Extra inputs are not permitted"
    assert details[2].startswith("job: ")
    assert "stages.0.stage: " in details[3] and "; stages.0.x: " in details[3]
    assert Job.objects.count() == 2


def test_a_job_that_cannot_be_stored_does_not_refuse_the_rest_of_its_batch(api: Api) -> None:
    deep: Any = "bottom"
    for _ in range(65):
        deep = [deep]
    values = ["\x00", 2**63, deep]
    bad = [{"name": "bad", "stages": [{"stage": "echo", "parameters": {"it": value}}]} for value in values]
    answer = api.post("/jobs:batch", {"jobs": [DAG, *bad, DAG]})
    assert answer.status_code == 200, answer.content
    items = answer.json()["items"]
    assert [item["code"] for item in items] == [None, *["malformed_body"] * len(bad), None]
    for item, words in zip(items[1:-1], ("NUL", "64 bits", "64 levels"), strict=True):
        assert words in item["detail"]
    around = api.post("/jobs:batch", {"jobs": [DAG], "note": "\x00"})
    assert (around.status_code, around.json()["code"]) == (400, "malformed_body")
    assert Job.objects.count() == 2


def test_a_job_may_be_nested_as_deep_in_a_batch_as_alone(api: Api) -> None:
    deep: Any = "bottom"
    for _ in range(60):  # below: the job, its stages, one of them, and its parameters
        deep = [deep]
    job = {"name": "deep", "stages": [{"stage": "echo", "parameters": {"it": deep}}]}
    assert api.post("/jobs", job).status_code == 201
    assert api.post("/jobs:batch", {"jobs": [job]}).json()["accepted"] == 1
    job["stages"] = [{"stage": "echo", "parameters": {"it": [deep]}}]
    assert api.post("/jobs", job).status_code == 400


def test_a_key_for_a_whole_batch_is_refused(api: Api) -> None:
    """If it were ignored, a repeated batch would run twice."""
    answer = api.post("/jobs:batch", {"jobs": [DAG]}, **{"Idempotency-Key": "k"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert "each job" in answer.json()["detail"]
    assert not Job.objects.exists()


def test_a_batch_is_bounded(api: Api) -> None:
    job = {"name": "one", "stages": [{"stage": "echo"}]}
    assert api.post("/jobs:batch", {"jobs": []}).status_code == 422
    assert api.post("/jobs:batch", {"jobs": [job] * 1001}).status_code == 422


def test_a_batch_may_be_larger_than_a_job_but_its_jobs_may_not(api: Api) -> None:
    stage = {"stage": "echo", "parameters": {"text": "x" * 200_000}}
    job = {"name": "large", "stages": [stage]}
    two = {"name": "too large", "stages": [stage, {**stage, "stage": "again"}]}
    answer = api.post("/jobs:batch", {"jobs": [*[job] * 15, two]})
    assert answer.status_code == 200, answer.content
    assert [item["code"] for item in answer.json()["items"]] == [None] * 15 + ["payload_too_large"]
    assert api.post("/jobs", two).status_code == 413
    answer = api.post("/jobs:batch", {"jobs": [job] * 84})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert "16777216 bytes" in answer.json()["detail"]


def test_lists_are_paged_newest_first_without_gaps(api: Api) -> None:
    made = [api.post("/jobs", {"name": f"n{n}", "stages": [{"stage": "echo"}]}).json()["job_id"] for n in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = api.get(f"/jobs?limit=2{cursor}").json()
        seen += [job["job_id"] for job in page["items"]]
        api.post("/tasks", {"task_type": "echo"})  # new rows shift no page
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == made[::-1]
    assert api.get("/jobs?limit=201").status_code == 422


def test_lists_filter_and_show_only_the_own_project(api: Api, token_for: Callable[..., str]) -> None:
    other = Api(token_for("submit", "read", project=Project.objects.create(name="beta")))
    for each, name in ((api, "a"), (api, "b"), (other, "a")):
        each.post("/jobs", {"name": name, "stages": [{"stage": "echo"}]})
    Job.objects.filter(name="b").update(error="no audio track")
    assert [job["name"] for job in api.get("/jobs").json()["items"]] == ["b", "a"]
    assert len(api.get("/jobs?name=a").json()["items"]) == 1
    assert len(api.get("/jobs?error=AUDIO").json()["items"]) == 1
    assert len(api.get("/jobs?status=running").json()["items"]) == 0
    assert len(api.get("/jobs?created_before=2020-01-01T00:00:00Z").json()["items"]) == 0
    assert len(Api(token_for("read", "operate")).get("/jobs").json()["items"]) == 3


def test_tasks_are_found_by_stage_type_error_and_parameter(api: Api) -> None:
    for number in range(3):
        api.post("/tasks", {"task_type": "echo", "parameters": {"user": {"id": number, "name": "ada"}}})
    api.post("/tasks", {"task_type": "fast", "stage": "diarize"})
    Task.objects.filter(task_type="fast").update(error="CUDA out of memory", error_cause="gpu_oom")

    def found(query: str) -> int:
        return len(api.get(f"/tasks?{query}").json()["items"])

    assert found("") == 4
    assert found("stage=diarize") == found("task_type=fast") == found("error=out%20of") == 1
    assert found("payload=user.id:2") == 1
    assert found("payload=user.name:ada") == 3
    assert found("payload=user.name:ada&stage=diarize") == 0
    assert api.get("/tasks?payload=nonsense").status_code == 422


@pytest.mark.django_db(transaction=True)
@pytest.mark.keeps_keys
def test_a_cancel_ends_waiting_tasks_and_is_safe_to_repeat(broker: Broker, api: Api) -> None:
    job = api.post("/jobs", DAG).json()
    answer = api.call("DELETE", f"/jobs/{job['job_id']}?reason=a+mistake")
    assert answer.status_code == 200, answer.content
    assert answer.json() == {
        "job_id": job["job_id"],
        "status": "cancelled",
        "was_running": False,
        "engine_notified": False,
    }
    again = api.call("DELETE", f"/jobs/{job['job_id']}")
    assert (again.status_code, again.json()) == (200, answer.json())
    assert set(Task.objects.values_list("status", flat=True)) == {"cancelled"}
    ends = TaskEvent.objects.filter(transition="cancel").values_list("message", flat=True)
    assert set(ends) == {"cancelled by token test: a mistake"}
    first = OperatorAction.objects.order_by("id")[0]
    assert (first.action, first.target, first.reason, first.actor) == (
        "job.cancel",
        job["job_id"],
        "a mistake",
        "token test",
    )
    assert first.before == {"status": "pending"}
    assert first.after["status"] == "cancelled"


@pytest.mark.django_db(transaction=True)
@pytest.mark.keeps_keys
def test_a_task_that_ended_otherwise_cannot_be_cancelled(
    broker: Broker, api: Api, token_for: Callable[..., str]
) -> None:
    task_id = api.post("/tasks", {"task_type": "echo"}).json()["task_id"]
    other = Api(token_for("submit", "read", project=Project.objects.create(name="beta")))
    assert other.call("DELETE", f"/tasks/{task_id}").status_code == 404
    Job.objects.update(status="completed", finished_at="2030-01-01T00:00:00Z")
    Task.objects.update(status="completed", finished_at="2030-01-01T00:00:00Z")
    answer = api.call("DELETE", f"/tasks/{task_id}")
    assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")
    assert "completed" in answer.json()["detail"]
    assert api.call("DELETE", f"/tasks/{uuid4()}").status_code == 404


def test_a_job_has_results_up_to_a_limit(api: Api) -> None:
    job = Job.objects.get(pk=api.post("/jobs", DAG).json()["job_id"])
    split, clean, notes = job.tasks.order_by("id")
    for task, result in ((split, "s"), (clean, "x" * MAX_RESULTS_BYTES), (notes, {"n": 1})):
        Task.objects.filter(pk=task.pk).update(status="completed", finished_at="2030-01-01T00:00:00Z", result=result)
    tasks = api.get(f"/jobs/{job.id}").json()["tasks"]
    assert [(task["result"], task["result_left_out"]) for task in tasks] == [
        ("s", False),
        (None, True),
        ({"n": 1}, False),
    ]


def test_a_job_shows_progress_and_deliveries_of_its_tasks(
    api: Api, broker: Broker, django_assert_num_queries: Any
) -> None:
    job_id = api.post("/jobs", DAG).json()["job_id"]
    job = Job.objects.get(pk=job_id)
    make.claim(job)
    split, notes = job.tasks.get(stage="split"), job.tasks.get(stage="notes")
    message = TaskMessage(task_id=str(split.id), job_id=job_id, queue="split", task_type="split", attempt=1)
    broker.append([message])
    with engine(broker, "split", name="n.demo.1.b") as consumer:
        [claimed] = consumer.claim()
        claimed.progress({"fraction": 0.5, "message": "half"})
        make.move("start", [split], seq=1, engine_id="n.demo.0.b")
        make.move("recover", [split], seq=2, engine_id="n.demo.0.b", cause="engine_lost", message="killed")
        make.move("start", [split], seq=3, engine_id="n.demo.1.b")
        make.move("skip", [notes])
        with django_assert_num_queries(4):  # the token, the job, its tasks, their events: however many there are
            shown = api.get(f"/jobs/{job_id}").json()
    first, second, third = shown["tasks"]
    assert (first["progress"], first["progress_message"], first["progress_known"]) == (0.5, "half", True)
    assert [(it["attempt"], it["engine_id"], it["outcome"], it["cause"]) for it in first["runs"]] == [
        (1, "n.demo.0.b", "recovered", "engine_lost"),
        (1, "n.demo.1.b", None, ""),
    ]
    assert (second["after"], second["weight"], second["progress"], second["runs"]) == (["split"], 3, 0, [])
    assert (third["required"], third["progress"]) == (False, 1)


@pytest.mark.django_db(transaction=True)
def test_an_event_is_written_for_each_job(web: Web, web_broker: Broker, token_for: Callable[..., str]) -> None:
    """After the answers: a hint for the orchestrators, also when many jobs are submitted at once."""
    with web.client(token_for("submit")) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post("/api/v1/tasks", json={"task_type": "echo"}), range(40)))
    stored = {answer.json()["job_id"] for answer in answers}
    assert len(stored) == 40
    home = web_broker.home

    def events() -> str:
        return str(home.command("XRANGE", home.keys.events("_jobs"), "-", "+"))

    wait_until(lambda: all(job in events() for job in stored), what="an event for each job")
