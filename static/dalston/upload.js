/* Sends recordings to the API: dropped anywhere on the page, or chosen. A bar and an outcome per file; three at a time.
   The transcriptions that come of it arrive in the list by themselves. */
(function () {
  "use strict";

  const AT_ONCE = 3;
  const form = document.getElementById("upload");
  if (!form) return;
  const input = document.getElementById("files");
  const list = document.getElementById("uploads");
  const status = document.getElementById("upload-status");
  const all = [];

  function key() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return "page-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  function element(name, parent, text, className) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (className) made.className = className;
    parent.append(made);
    return made;
  }

  function size(bytes) {
    for (const [unit, length] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (bytes >= length) return (bytes / length).toFixed(1) + " " + unit;
    return bytes + " bytes";
  }

  function add(file) {
    const row = element("li", list);
    const name = element("span", row, "", "words");
    element("bdi", name, file.name);
    element("span", name, " " + size(file.size), "sub");
    const bar = element("progress", row);
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", "sent of " + file.name);
    const words = element("span", row, "waiting", "outcome");
    const button = element("button", row, "Cancel", "small-button");
    button.type = "button";
    const upload = { file, row, bar, words, button, key: key(), state: "waiting", request: null, options: options() };
    button.addEventListener("click", () => (upload.state === "failed" ? again(upload) : cancel(upload)));
    name_button(upload, "Cancel");
    all.push(upload);
  }

  function options() {
    const chosen = Array.from(form.querySelectorAll("[name=language], [name=model], [name=channels]"), (field) => [field.name, field.value.trim()]).filter((pair) => pair[1]);
    if (document.getElementById("words").value === "yes") chosen.push(["timestamp_granularities[]", "word"], ["timestamp_granularities[]", "segment"]);
    return chosen;
  }

  function name_button(upload, text) {
    upload.button.textContent = text;
    upload.button.setAttribute("aria-label", text + " " + upload.file.name);
  }

  function again(upload) {
    upload.state = "waiting";
    upload.words.textContent = "waiting";
    upload.row.className = "";
    name_button(upload, "Cancel");
    next();
  }

  function cancel(upload) {
    upload.state = "cancelled";
    if (upload.request) upload.request.abort();
    upload.row.remove();
    all.splice(all.indexOf(upload), 1);
    input.focus();
    next();
  }

  function fail(upload, sentence, isFinal) {
    upload.state = isFinal ? "refused" : "failed";
    upload.row.className = "bad";
    upload.bar.value = 0;
    upload.words.textContent = sentence;
    if (isFinal) upload.button.remove(); else name_button(upload, "Try again");
    next();
  }

  function done(upload, transcription) {
    upload.state = "done";
    upload.row.className = "ok";
    upload.bar.value = 1;
    upload.button.remove();
    upload.words.textContent = "";
    const link = element("a", upload.words, "Transcription");
    link.href = form.dataset.page + encodeURIComponent(transcription.id) + "/";
    link.setAttribute("aria-label", "Transcription of " + upload.file.name);
    next();
  }

  function send(upload) {
    const request = new XMLHttpRequest();
    const body = new FormData();
    for (const [name, value] of upload.options) body.append(name, value);
    body.append("file", upload.file, upload.file.name);
    upload.state = "sending";
    upload.request = request;
    upload.words.textContent = "sending";
    request.upload.onprogress = (event) => {
      if (!event.lengthComputable) return;
      upload.bar.value = event.loaded / event.total;
      upload.words.textContent = event.loaded < event.total ? Math.floor(100 * event.loaded / event.total) + " %" : "storing";
    };
    request.onload = () => {
      let document_ = null;
      try { document_ = JSON.parse(request.responseText); } catch (error) { /* a proxy's error page */ }
      if (request.status === 200 || request.status === 201) done(upload, document_);
      else fail(upload, document_ && document_.detail && document_.detail.replace(/^file: /, "") || "The server answered " + request.status + ".", request.status < 500 && request.status !== 429 && request.status !== 401);
    };
    // A folder, a file that was deleted meanwhile, or a server that refuses in the middle of a file: all look alike here.
    request.onerror = () => fail(upload, "The connection broke, or the file cannot be read.", false);
    request.open("POST", form.action);
    request.setRequestHeader("X-CSRFToken", form.querySelector("[name=csrfmiddlewaretoken]").value);
    request.setRequestHeader("Idempotency-Key", upload.key);
    request.setRequestHeader("Accept", "application/json");
    request.send(body);
  }

  function next() {
    const count = (state) => all.filter((upload) => upload.state === state).length;
    for (const upload of all) if (upload.state === "waiting" && count("sending") < AT_ONCE) send(upload);
    const failed = count("failed") + count("refused");
    status.textContent = all.length ? count("done") + " of " + all.length + " sent" + (failed ? ", " + failed + " failed" : "") + "." : "";
  }

  function take(files) {
    if (!form.reportValidity()) return;
    for (const file of files) add(file);
    next();
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  input.addEventListener("change", () => { take(Array.from(input.files)); input.value = ""; });

  const hasFiles = (event) => event.dataTransfer && Array.from(event.dataTransfer.types).includes("Files");
  let depth = 0;  // dragenter and dragleave come for each element under the pointer
  document.addEventListener("dragenter", (event) => { if (hasFiles(event)) { depth += 1; form.classList.add("over"); } });
  document.addEventListener("dragleave", (event) => { if (hasFiles(event) && --depth <= 0) { depth = 0; form.classList.remove("over"); } });
  document.addEventListener("dragover", (event) => { if (hasFiles(event)) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth = 0;
    form.classList.remove("over");
    take(Array.from(event.dataTransfer.files));
  });

  addEventListener("beforeunload", (event) => {
    if (all.some((upload) => upload.state === "sending" || upload.state === "waiting")) event.preventDefault();
  });
})();
