// The theme that was chosen here before, set before the page is drawn. "auto" follows the system.
"use strict";
{
  const NAMES = ["auto", "light", "dark"];
  const LABELS = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };
  const KEY = "maskwright-theme";
  const stored = localStorage.getItem(KEY);
  let theme = NAMES.includes(stored) ? stored : "auto";

  const apply = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = LABELS[theme];
  };

  apply();
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      theme = NAMES[(NAMES.indexOf(theme) + 1) % NAMES.length];
      localStorage.setItem(KEY, theme);
      apply();
      window.dispatchEvent(new Event("themechange"));
    });
  });
}
