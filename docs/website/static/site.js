// What scrolls by itself has to be reachable with the keyboard (WCAG 2.1.1).
function reachable() {
  for (const region of document.querySelectorAll("pre, .table-wrapper")) {
    if (region.scrollWidth > region.clientWidth) {
      region.tabIndex = 0;
      if (!region.hasAttribute("role")) {
        region.setAttribute("role", "region");
        region.setAttribute("aria-label", region.matches("pre") ? "Code" : "Table");
      }
    } else {
      region.removeAttribute("tabindex");
    }
  }
}
document.addEventListener("DOMContentLoaded", reachable);
window.addEventListener("resize", reachable);
