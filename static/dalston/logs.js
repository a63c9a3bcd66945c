/* Follows an engine's log in a pane: opens its socket when the pane is opened, and closes it with the pane or the page.
   Lines come as JSON and are inserted as text. After scrolling up or pausing, new lines do not move the view. */
(function () {
  "use strict";

  const MAX_LINES = 2000;
  const MAX_LINES_SCROLLED = 10000;  // while the viewer has scrolled up
  const AGAIN_AFTER_MS = 2000;

  function follow(pane) {
    const text = pane.querySelector("pre");
    const status = pane.querySelector("[data-status]");
    const button = pane.querySelector("[data-pause]");
    let waiting = [];
    let paused = false;
    let socket = null;
    const life = new AbortController();  // of the listeners: a pane that is opened again gets its own

    function show() {
      const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 30;
      for (const line of waiting) {
        const row = document.createElement("span");
        row.textContent = line + "\n";
        text.append(row);
      }
      waiting = [];
      // Old lines are dropped at the top, later if the viewer has scrolled up.
      const limit = atEnd ? MAX_LINES : MAX_LINES_SCROLLED;
      while (text.childElementCount > limit) text.firstElementChild.remove();
      if (atEnd) text.scrollTop = text.scrollHeight;
    }

    function showStatus() {
      status.textContent = paused ? "paused, " + waiting.length + " new lines" : socket && socket.readyState === 1 ? "following" : "connecting";
    }

    function connect() {
      if (!pane.open || !pane.isConnected) return;
      const scheme = location.protocol === "https:" ? "wss://" : "ws://";
      socket = new WebSocket(scheme + location.host + pane.dataset.log);
      socket.onopen = () => { text.replaceChildren(); waiting = []; showStatus(); };
      socket.onmessage = (event) => {
        const message = JSON.parse(event.data);
        waiting = waiting.concat(message.lines).slice(-MAX_LINES);
        if (!paused) show();
        if (message.problem) status.textContent = message.problem; else showStatus();
      };
      socket.onclose = () => { showStatus(); setTimeout(connect, AGAIN_AFTER_MS); };
    }

    button.addEventListener("click", () => {
      paused = !paused;
      button.textContent = paused ? "Resume" : "Pause";
      if (!paused) { show(); text.scrollTop = text.scrollHeight; }
      showStatus();
    }, { signal: life.signal });
    pane.addEventListener("toggle", () => { if (!pane.open) stop(); }, { signal: life.signal });
    // A pane whose engine went away is removed from the page without an event.
    const watch = setInterval(() => { if (!pane.isConnected) stop(); }, 2000);

    function stop() {
      clearInterval(watch);
      life.abort();
      button.textContent = "Pause";
      pane.dataset.followed = "";
      if (socket) { socket.onclose = null; socket.close(); }
    }

    showStatus();
    connect();
  }

  // `toggle` does not bubble, but can be captured.
  document.addEventListener("toggle", (event) => {
    const pane = event.target;
    if (pane.matches("details[data-log]") && pane.open && pane.dataset.followed !== "yes") {
      pane.dataset.followed = "yes";
      follow(pane);
    }
  }, true);
})();
