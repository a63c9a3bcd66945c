/* The keyboard: / searches, j and k go from row to row, Enter opens, ? says so. Rows are moved through by focusing their
   links, so a screen reader follows; a live swap that removes the focused row keeps its position. */
(function () {
  "use strict";

  const dialog = document.getElementById("keys");
  let position = -1;    // of the row that was focused last
  let focusedRow = "";  // its id

  function rows() {
    return Array.from(document.querySelectorAll("tbody tr[id]")).filter((row) => row.querySelector("a[href]") && row.getClientRects().length);
  }

  function focus(row) {
    const link = row.querySelector("th a[href]") || row.querySelector("a[href]");
    link.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function go(step) {
    const all = rows();
    if (!all.length) return;
    const here = document.activeElement && document.activeElement.closest("tr[id]");
    const at = all.indexOf(here);
    const next = at >= 0 ? at + step : position < 0 ? 0 : step > 0 ? position : position - 1;  // the row is gone, its position is not
    focus(all[Math.max(0, Math.min(all.length - 1, next))]);
  }

  function search() {
    const field = Array.from(document.querySelectorAll("main input[type=search]")).find((input) => input.getClientRects().length);
    const jobs = document.getElementById("nav-jobs");
    if (field) { field.focus(); field.select(); }
    else if (jobs) location.href = jobs.href + "#search";
  }

  function isTyping(element) {
    return element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) && element.type !== "checkbox";
  }

  document.addEventListener("focusin", (event) => {
    const row = event.target.closest("tr[id]");
    if (row) { focusedRow = row.id; position = rows().indexOf(row); }
    else if (event.target !== document.body) focusedRow = "";
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !dialog || dialog.open) return;
    if (isTyping(event.target)) { if (event.key === "Escape") event.target.blur(); return; }
    const action = { "/": search, j: () => go(1), k: () => go(-1), "?": () => dialog.showModal() }[event.key];
    if (action) { event.preventDefault(); action(); }
  });

  // After live.js, which focuses the same link again: a link without an id is found by its row.
  document.body.addEventListener("htmx:wsAfterMessage", () => {
    const row = focusedRow && document.activeElement === document.body && document.getElementById(focusedRow);
    if (row && row.querySelector("a[href]")) focus(row);
  });

  const button = document.getElementById("keys-button");
  if (button && dialog) { button.hidden = false; button.addEventListener("click", () => dialog.showModal()); }
  if (location.hash === "#search") search();
})();
