/* What a live page does in the browser: says how fresh the page is, ticks relative times, and reconnects.
   All data comes as HTML over the WebSocket; htmx puts it in place. */
(function () {
  "use strict";

  const LOST_AFTER_MS = 3500;     // ticks come every 0.8 s: four missing ones are no accident
  const REDIAL_AFTER_MS = 9000;   // silent, but not closed: the network went away without saying so
  const root = document.documentElement;
  let lastNews = Date.now();
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

  function say(element, text) { if (element.textContent !== text) element.textContent = text; }

  function tick() {
    const now = Date.now() + skew;
    for (const time of document.querySelectorAll("time[data-show]")) {
      const at = Date.parse(time.dateTime);
      if (!time.title) time.title = new Date(at).toLocaleString();
      if (time.dataset.show === "ago") say(time, ago(now - at) + " ago");
      else if (time.dataset.show === "age") say(time, ago(now - at));
      else if (time.dataset.show === "until") say(time, now < at ? "in " + clock(at - now + 999) : "now");
      else if (time.dataset.show === "left") { say(time, now > at ? "over by " + clock(now - at) : clock(at - now)); time.classList.toggle("over", now > at); }
      else say(time, clock(now - at));
    }
  }

  function look() {
    const silence = Date.now() - lastNews;
    const label = document.getElementById("pulse-text");
    if (root.dataset.link === "signed-out" || root.dataset.link === "gone") return;
    if (silence > LOST_AFTER_MS) {
      root.dataset.link = "lost";
      if (label) say(label, "No news for " + ago(silence) + " – reconnecting");
      if (silence > REDIAL_AFTER_MS && socket) {
        lastNews = Date.now() - LOST_AFTER_MS;  // one redial per while, not one per second
        socket.reconnect();
      }
    }
  }

  document.body.addEventListener("htmx:wsOpen", (event) => { socket = event.detail.socketWrapper; });

  // A swapped row loses what the reader did to it: the keyboard focus, what was folded open, what was ticked.
  document.body.addEventListener("htmx:wsBeforeMessage", () => {
    focused = document.activeElement && document.activeElement.id;
    opened = Array.from(document.querySelectorAll("details[open][id]"), (details) => details.id);
    ticked = Array.from(document.querySelectorAll("input[type=checkbox][id]:checked"), (box) => box.id);
  });

  document.body.addEventListener("htmx:wsAfterMessage", () => {
    lastNews = Date.now();
    const pulse = document.getElementById("pulse");
    if (pulse) skew = Number(pulse.dataset.now) - lastNews;
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
      const label = document.getElementById("pulse-text");
      if (label) {
        const again = document.createElement("a");
        again.href = "/login/?next=" + encodeURIComponent(location.pathname + location.search);
        again.textContent = "Sign in again";
        label.replaceChildren("You are signed out. ", again);
      }
    } else if (code === 4404) {
      root.dataset.link = "gone";
      const label = document.getElementById("pulse-text");
      if (label) say(label, "This is no more: it was removed with the old history. What you see is the last of it.");
    } else if (code === 4403) {
      location.reload();  // another role: the page itself has other buttons
    } else if (![1006, 1011, 1012, 1013].includes(code) && socket) {
      setTimeout(() => socket.reconnect(), 1000);  // htmx itself reconnects only after those four
    }
  });

  tick();
  setInterval(() => { tick(); look(); }, 1000);
})();
