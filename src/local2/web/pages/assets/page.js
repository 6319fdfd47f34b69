// Keys, the menu of narrow screens, and the choice between light and dark.
"use strict";

const EDITABLE = "input, textarea, select, [contenteditable]";
const SEARCH = "[data-search] input, input[data-search]";
const THEMES = { light: false, dark: true };
let pressedGo = false;

function nextTheme() {
  const isDark = document.body.classList.contains("body--dark");
  const chosen = isDark ? "light" : "dark";
  localStorage.setItem("theme", chosen);
  setDark(THEMES[chosen]);
}

// Rows of a table, and what else is built anew and keeps the focus, such as a question to decide.
const PLACES = "[data-row], [data-place]";

function rowsOf(list) {
  return [...list.querySelectorAll(PLACES)];
}

function moveInRows(row, step) {
  const rows = rowsOf(row.closest("[data-rows]"));
  rows[rows.indexOf(row) + step]?.focus();
}

function goToRows(event) {
  const first = document.querySelector("[data-row]");
  if (first) {
    event.preventDefault();
    first.focus();
  }
}

// What was shown begins anew, such as the next page of a list.
function goToTop(id) {
  setTimeout(() => {
    getHtmlElement(id)?.querySelector("[data-row], a, button, summary")?.focus();
  });
}

function isOpenDialog() {
  return document.querySelector("[role=dialog], [role=alertdialog]") !== null;
}

// The rows of a table are built anew whenever something changes, also by the drawer that one opens.
// The focus, which is then lost, returns to the row that has its place, or to the last one.
let focused = null;

document.addEventListener("focusin", (event) => {
  const row = event.target.closest(PLACES);
  const list = row?.closest("[data-rows]");
  if (list) {
    focused = { row, list, number: rowsOf(list).indexOf(row), isInner: event.target !== row };
  } else if (!isOpenDialog() && !event.target.closest(".notices")) {
    focused = null;
  }
});

document.addEventListener("pointerdown", (event) => {
  if (!event.target.closest(PLACES) && !isOpenDialog()) focused = null;
});

new MutationObserver(() => {
  if (!focused || isOpenDialog()) return;
  if (document.activeElement !== document.body) return;
  const rows = rowsOf(focused.list);
  const row = rows[focused.number] ?? rows.at(-1);
  const place = focused.isInner ? row?.querySelector("input, button") : row;
  place?.focus({ preventScroll: true });
}).observe(document.documentElement, { childList: true, subtree: true });

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
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      row.click();
      return;
    }
  }
  if (isOpenDialog()) return;
  if (event.key === "ArrowDown" && event.target.matches?.(SEARCH)) {
    goToRows(event);
    return;
  }
  if (event.target.closest?.(EDITABLE)) return;
  if (pressedGo) {
    pressedGo = false;
    document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
  } else if (event.key === "g") {
    pressedGo = true;
  } else if (event.key === "/") {
    event.preventDefault();
    document.querySelector(SEARCH)?.focus();
  } else if (event.key === "ArrowDown" && event.target === document.body) {
    goToRows(event);
  } else if (event.key === "n") {
    document.querySelector(".notice:last-child button")?.focus();
  } else if (event.key === "Escape" && document.body.classList.contains("menu-open")) {
    document.querySelector("[data-menu]").click();
    document.querySelector("[data-menu]").focus();
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
