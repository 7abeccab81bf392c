// Before the first paint: the colours that were chosen, so that the page does not flash.
"use strict";
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("jobpool-theme"); } catch { /* storage is off: as the system */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
