/* Plays a recording with its transcript: words and waveform seek, and the word that is spoken lights up.
   The words are text, so that a screen reader reads sentences; arrow keys go from word to word. */
(function () {
  "use strict";

  const player = document.getElementById("player");
  if (!player) return;
  let words = [];     // the elements
  let starts = [];    // their times, ascending
  let current = -1;   // the index of the word that is spoken
  let fetching = false;

  function collect() {
    words = Array.from(document.querySelectorAll("#transcript .w"));
    const at = words.map((word) => Number(word.dataset.at));
    const order = at.map((_, index) => index).sort((a, b) => at[a] - at[b]);  // channels talk at the same time
    words = order.map((index) => words[index]);
    starts = order.map((index) => at[index]);
    current = -1;
    show();
  }

  function clock(seconds) {
    const s = Math.max(0, Math.floor(seconds)), h = Math.floor(s / 3600), m = Math.floor(s % 3600 / 60);
    return (h ? h + ":" + String(m).padStart(2, "0") : m) + ":" + String(s % 60).padStart(2, "0");
  }

  function length() {
    const wave = document.getElementById("wave");
    return Number.isFinite(player.duration) ? player.duration : wave ? Number(wave.dataset.duration) : 0;
  }

  function seek(seconds, play) {
    player.currentTime = Math.max(0, seconds);
    show();
    if (play) player.play().catch(() => { /* the browser wants a click first, or cannot play it: `error` says so */ });
  }

  function spoken(seconds) {
    let low = 0, high = starts.length;  // the first word that starts later
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= seconds + 0.02) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  function show() {
    const now = player.currentTime;
    const started = !player.paused || now > 0;
    const index = started ? spoken(now) : -1;
    if (index !== current) {
      const before = words[current], after = words[index];
      if (before) before.classList.remove("now");
      if (after) after.classList.add("now");
      const left = before && before.closest(".segment"), entered = after && after.closest(".segment");
      if (left !== entered) {
        if (left) left.removeAttribute("aria-current");
        if (entered) entered.setAttribute("aria-current", "true");
        const follow = document.getElementById("follow");
        if (entered && follow && follow.checked && !player.paused) entered.scrollIntoView({ block: "nearest" });
      }
      current = index;
    }
    const wave = document.getElementById("wave"), whole = length();
    if (!wave || !whole) return;
    const view = wave.querySelector("svg").viewBox.baseVal;
    document.getElementById("wave-played").setAttribute("width", String(Math.min(1, now / whole) * view.width));
    wave.setAttribute("aria-valuenow", String(Math.floor(now)));
    wave.setAttribute("aria-valuetext", clock(now) + " of " + clock(whole));
  }

  function frame() {
    show();
    if (!player.paused && !player.ended) requestAnimationFrame(frame);
  }

  function fromWave(event) {
    const box = event.target.closest("#wave").getBoundingClientRect();
    seek((event.clientX - box.left) / box.width * length(), false);
  }

  function waveKey(event) {
    const whole = length(), now = player.currentTime;
    const to = { ArrowRight: now + 5, ArrowUp: now + 5, ArrowLeft: now - 5, ArrowDown: now - 5, PageUp: now + 30, PageDown: now - 30, Home: 0, End: whole }[event.key];
    if (to !== undefined) { event.preventDefault(); seek(Math.min(to, whole), false); }
    else if (event.key === " " || event.key === "Enter") { event.preventDefault(); if (player.paused) seek(now, true); else player.pause(); }
  }

  function move(from, step) {
    const segment = from.closest(".segment");
    const inside = Array.from(segment.querySelectorAll(".at, .w"));
    let target = inside[inside.indexOf(from) + step];
    if (!target) {
      const other = step > 0 ? segment.nextElementSibling : segment.previousElementSibling;
      const all = other ? other.querySelectorAll(".at, .w") : [];
      target = all[step > 0 ? 0 : all.length - 1];
    }
    if (!target) return;
    if (target.classList.contains("w")) target.tabIndex = -1;
    target.focus();
  }

  document.addEventListener("pointerdown", (event) => { if (event.target.closest("#wave")) fromWave(event); });
  document.addEventListener("pointermove", (event) => { if (event.buttons === 1 && event.target.closest("#wave")) fromWave(event); });

  document.addEventListener("click", (event) => {
    const at = event.target.closest("#transcript .at"), word = event.target.closest("#transcript .w");
    if (at) { event.preventDefault(); history.replaceState(null, "", at.hash); seek(Number(at.hash.slice(3)), true); }
    else if (word && getSelection().isCollapsed) seek(Number(word.dataset.at), true);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.id === "wave") { waveKey(event); return; }
    const here = event.target.closest("#transcript .at, #transcript .w");
    if (!here) return;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") { event.preventDefault(); move(here, event.key === "ArrowRight" ? 1 : -1); }
    else if (here.classList.contains("w") && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); seek(Number(here.dataset.at), true); }
  });

  for (const kind of ["play", "seeked", "timeupdate", "loadedmetadata", "ended"]) player.addEventListener(kind, kind === "play" ? frame : show);
  function showError() {
    if (player.error) document.getElementById("player-problem").textContent = "This browser cannot play the recording. The transcript and its downloads are not affected.";
  }

  player.addEventListener("error", showError);
  showError();  // it may have failed before this script ran

  // The live part says that waveform or transcript have come: they are fetched, and the player plays on.
  document.body.addEventListener("htmx:wsAfterMessage", () => {
    const live = document.getElementById("transcription"), recording = document.getElementById("recording");
    if (!live || fetching || live.dataset.parts === recording.dataset.parts && live.classList.contains("over") === (recording.dataset.over === "yes")) return;
    fetching = true;
    fetch(location.pathname, { headers: { Accept: "text/html" } }).then((response) => response.ok ? response.text() : Promise.reject(response.status)).then((text) => {
      const fresh = new DOMParser().parseFromString(text, "text/html");
      for (const id of ["picture", "transcript"]) document.getElementById(id).replaceWith(fresh.getElementById(id));
      Object.assign(recording.dataset, fresh.getElementById("recording").dataset);
      collect();
    }).catch(() => { /* the next message tries again */ }).finally(() => { fetching = false; });
  });

  collect();
  // A link to a moment: on load, and when only the moment of the address changes.
  function toMoment() {
    const wanted = /^#t=(\d+(\.\d+)?)$/.exec(location.hash);
    if (!wanted) return;
    if (player.readyState > 0) seek(Number(wanted[1]), false);
    else player.addEventListener("loadedmetadata", () => seek(Number(wanted[1]), false), { once: true });
  }

  addEventListener("hashchange", toMoment);
  toMoment();
})();
