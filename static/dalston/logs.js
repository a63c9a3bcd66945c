/* Follows an engine's log in a pane: opens its socket when the pane is opened, and closes it with the pane or the page.
   Lines come as JSON and are put in as text. Reading further up, or pausing, keeps the place; new lines wait below. */
(function () {
  "use strict";

  const MOST_LINES = 2000;
  const MOST_READ = 10000;  // while somebody reads further up
  const AGAIN_AFTER_MS = 2000;

  function follow(pane) {
    const text = pane.querySelector("pre");
    const said = pane.querySelector("[data-said]");
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
      // Lines are dropped above while nobody reads there; a reader further up loses them only where the page would
      // grow without end.
      const most = atEnd ? MOST_LINES : MOST_READ;
      while (text.childElementCount > most) text.firstElementChild.remove();
      if (atEnd) text.scrollTop = text.scrollHeight;
    }

    function say() {
      said.textContent = paused ? "paused, " + waiting.length + " new lines" : socket && socket.readyState === 1 ? "following" : "connecting";
    }

    function dial() {
      if (!pane.open || !pane.isConnected) return;
      const scheme = location.protocol === "https:" ? "wss://" : "ws://";
      socket = new WebSocket(scheme + location.host + pane.dataset.log);
      socket.onopen = () => { text.replaceChildren(); waiting = []; say(); };
      socket.onmessage = (event) => {
        const news = JSON.parse(event.data);
        waiting = waiting.concat(news.lines).slice(-MOST_LINES);
        if (!paused) show();
        if (news.problem) said.textContent = news.problem; else say();
      };
      socket.onclose = () => { say(); setTimeout(dial, AGAIN_AFTER_MS); };
    }

    button.addEventListener("click", () => {
      paused = !paused;
      button.textContent = paused ? "Go on" : "Pause";
      if (!paused) { show(); text.scrollTop = text.scrollHeight; }
      say();
    }, { signal: life.signal });
    pane.addEventListener("toggle", () => { if (!pane.open) stop(); }, { signal: life.signal });
    // A pane whose engine went away is taken out of the page without a word.
    const watch = setInterval(() => { if (!pane.isConnected) stop(); }, 2000);

    function stop() {
      clearInterval(watch);
      life.abort();
      button.textContent = "Pause";
      pane.dataset.followed = "";
      if (socket) { socket.onclose = null; socket.close(); }
    }

    say();
    dial();
  }

  // `toggle` does not bubble, but can be caught on its way down.
  document.addEventListener("toggle", (event) => {
    const pane = event.target;
    if (pane.matches("details[data-log]") && pane.open && pane.dataset.followed !== "yes") {
      pane.dataset.followed = "yes";
      follow(pane);
    }
  }, true);
})();
