// Light, dark, or as the system has it. It runs before anything is drawn, so that nothing flashes.
"use strict";
(() => {
  const NAME = "termarena-theme";
  const ORDER = ["auto", "light", "dark"];
  const root = document.documentElement;
  const read = () => { try { return localStorage.getItem(NAME); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem(NAME, theme); } catch { /* it lasts as long as the page */ } };
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    const show = () => {
      button.textContent = root.dataset.theme ?? "auto";
      button.setAttribute("aria-label", `Colours: ${button.textContent}`);
    };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      const next = ORDER[(ORDER.indexOf(root.dataset.theme ?? "auto") + 1) % ORDER.length];
      keep(next);
      apply(next);
      show();
    });
  });
})();
