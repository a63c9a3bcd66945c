"""Jobs and tasks in Postgres: the states, the only writer of status, submit, dispatch, DAG, retry, cancel, replay."""
