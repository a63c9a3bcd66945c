/* A live page in the browser: shows how fresh the page is, updates relative times, and reconnects.
   All data comes as HTML over the WebSocket; htmx swaps it in. */
(function () {
  "use strict";

  const LOST_AFTER_MS = 3500;     // ticks come every 0.8 s: four missing ones are no accident
  const RECONNECT_AFTER_MS = 9000;   // no message, but not closed: the network went away unnoticed
  const root = document.documentElement;
  let lastMessage = Date.now();
  let skew = 0;                   // server clock minus ours, so that ages are right on a wrong clock
  let socket = null;
  let focused = null;
  let opened = [];
  let ticked = [];

  htmx.config.wsReconnectDelay = (tries) => Math.min(3000, 300 * 2 ** tries) * (0.6 + 0.4 * Math.random());

  function ago(ms) {
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min";
    if (s < 172800) return Math.floor(s / 3600) + " h";
    return Math.floor(s / 86400) + " d";
  }

  function clock(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + String(s % 60).padStart(2, "0") + " s";
    return Math.floor(s / 3600) + " h " + String(Math.floor((s % 3600) / 60)).padStart(2, "0") + " min";
  }

  function setText(element, text) { if (element.textContent !== text) element.textContent = text; }

  function tick() {
    const now = Date.now() + skew;
    for (const time of document.querySelectorAll("time[data-show]")) {
      const at = Date.parse(time.dateTime);
      if (!time.title) time.title = new Date(at).toLocaleString();
      if (time.dataset.show === "ago") setText(time, ago(now - at) + " ago");
      else if (time.dataset.show === "age") setText(time, ago(now - at));
      else if (time.dataset.show === "until") setText(time, now < at ? "in " + clock(at - now + 999) : "now");
      else if (time.dataset.show === "left") { setText(time, now > at ? "over by " + clock(now - at) : clock(at - now)); time.classList.toggle("over", now > at); }
      else setText(time, clock(now - at));
    }
  }

  function checkConnection() {
    const quiet = Date.now() - lastMessage;
    const label = document.getElementById("as-of-text");
    if (root.dataset.link === "signed-out" || root.dataset.link === "gone") return;
    if (quiet > LOST_AFTER_MS) {
      root.dataset.link = "lost";
      if (label) setText(label, "No update for " + ago(quiet) + " – reconnecting");
      if (quiet > RECONNECT_AFTER_MS && socket) {
        lastMessage = Date.now() - LOST_AFTER_MS;  // one reconnect per period, not one per second
        socket.reconnect();
      }
    }
  }

  document.body.addEventListener("htmx:wsOpen", (event) => { socket = event.detail.socketWrapper; });

  // A swapped row loses its state in the browser: the keyboard focus, open details, ticked boxes.
  document.body.addEventListener("htmx:wsBeforeMessage", () => {
    focused = document.activeElement && document.activeElement.id;
    opened = Array.from(document.querySelectorAll("details[open][id]"), (details) => details.id);
    ticked = Array.from(document.querySelectorAll("input[type=checkbox][id]:checked"), (box) => box.id);
  });

  document.body.addEventListener("htmx:wsAfterMessage", () => {
    lastMessage = Date.now();
    const asOf = document.getElementById("as-of");
    if (asOf) skew = Number(asOf.dataset.now) - lastMessage;
    root.dataset.link = "live";
    tick();
    for (const id of opened) { const details = document.getElementById(id); if (details) details.open = true; }
    for (const id of ticked) { const box = document.getElementById(id); if (box) box.checked = true; }
    const again = focused && document.activeElement === document.body && document.getElementById(focused);
    if (again) again.focus({ preventScroll: true });
  });

  document.body.addEventListener("htmx:wsClose", (event) => {
    const code = event.detail.event.code;
    if (code === 4401) {
      root.dataset.link = "signed-out";
      const label = document.getElementById("as-of-text");
      if (label) {
        const again = document.createElement("a");
        again.href = "/login/?next=" + encodeURIComponent(location.pathname + location.search);
        again.textContent = "Sign in again";
        label.replaceChildren("You are signed out. ", again);
      }
    } else if (code === 4404) {
      root.dataset.link = "gone";
      const label = document.getElementById("as-of-text");
      if (label) setText(label, "This was deleted with the old history. The page shows its last state.");
    } else if (code === 4403) {
      location.reload();  // another role: the page itself has other buttons
    } else if (![1006, 1011, 1012, 1013].includes(code) && socket) {
      setTimeout(() => socket.reconnect(), 1000);  // htmx itself reconnects only after those four
    }
  });

  tick();
  setInterval(() => { tick(); checkConnection(); }, 1000);
})();
