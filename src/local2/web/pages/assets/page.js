// Keys, the menu of narrow screens, and the choice between light and dark.
"use strict";

const EDITABLE = "input, textarea, select, [contenteditable]";
const THEMES = { light: false, dark: true };
let pressedGo = false;

function nextTheme() {
  const isDark = document.body.classList.contains("body--dark");
  const chosen = isDark ? "light" : "dark";
  localStorage.setItem("theme", chosen);
  setDark(THEMES[chosen]);
}

function moveInRows(row, step) {
  const rows = [...row.closest("[data-rows]").querySelectorAll("[data-row]")];
  rows[rows.indexOf(row) + step]?.focus();
}

function isOpenDialog() {
  return document.querySelector("[role=dialog], [role=alertdialog]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const row = event.target.closest?.("[data-row]");
  if (row !== null && row !== undefined && event.target === row) {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      moveInRows(row, steps[event.key]);
      return;
    }
    if (event.key === "Enter") {
      event.preventDefault();
      row.click();
      return;
    }
  }
  if (event.target.closest?.(EDITABLE) || isOpenDialog()) return;
  if (pressedGo) {
    pressedGo = false;
    document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
  } else if (event.key === "g") {
    pressedGo = true;
  } else if (event.key === "/") {
    event.preventDefault();
    document.querySelector("[data-search] input, input[data-search]")?.focus();
  } else if (event.key === "ArrowDown" && event.target === document.body) {
    const first = document.querySelector("[data-row]");
    if (first) {
      event.preventDefault();
      first.focus();
    }
  } else if (event.key === "t") {
    nextTheme();
  } else if (event.key === "?") {
    emitEvent("keys");
  }
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme]")) nextTheme();
  if (event.target.closest("[data-keys]")) emitEvent("keys");
  const menu = event.target.closest("[data-menu]");
  if (menu) {
    const isOpen = document.body.classList.toggle("menu-open");
    menu.setAttribute("aria-expanded", String(isOpen));
  }
});

document.addEventListener("DOMContentLoaded", () => {
  const chosen = localStorage.getItem("theme");
  if (chosen in THEMES) setDark(THEMES[chosen]);
});
