/* One tick for all dead letters on the page. Without it each has its own. */
(function () {
  "use strict";
  const all = document.getElementById("tick-all");
  if (!all) return;
  const ticks = () => document.querySelectorAll("#dead-letters input[name=id]");
  all.addEventListener("change", () => { for (const tick of ticks()) tick.checked = all.checked; });
})();
