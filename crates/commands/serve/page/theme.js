// The colours of the style sheet, for pictures: a canvas and a file know no variables.

const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);

/** Returns a colour of the style sheet as it is now, light or dark. */
export function color(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** Calls `listener` when light becomes dark, or dark light. */
export function onTheme(listener) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", listener);
}
