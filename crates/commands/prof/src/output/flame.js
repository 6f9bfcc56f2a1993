(function () {
  "use strict";
  var svg = document.currentScript.ownerSVGElement || document.documentElement;
  var space = "http://www.w3.org/2000/svg";
  var boxes = Array.prototype.map.call(svg.querySelectorAll("g.b"), function (group) {
    var box = group.querySelector("rect");
    var number = function (name) { return parseFloat(box.getAttribute(name)); };
    var parts = group.querySelector("title").textContent.split(" · ");
    return {
      group: group, box: box, text: group.querySelector("text"),
      x: number("x"), y: number("y"), width: number("width"), height: number("height"),
      name: parts.slice(0, -2).join(" · ")
    };
  });
  if (!boxes.length) { return; }
  var left = boxes.reduce(function (least, box) { return Math.min(least, box.x); }, Infinity);
  var most = boxes.reduce(function (most, box) { return Math.max(most, box.x + box.width); }, left);
  // The full width, below all boxes.
  var whole = { x: left, width: most - left, y: Infinity };
  function label(box, x, width) {
    var room = Math.floor((width - 6) / 6.622);
    var name = box.name.length > room ? (room > 2 ? box.name.slice(0, room - 1) + "…" : "") : box.name;
    if (!box.text) {
      if (!name) { return; }
      box.text = document.createElementNS(space, "text");
      box.text.setAttribute("class", "tx");
      box.text.setAttribute("font-size", "11");
      box.text.setAttribute("y", box.y + box.height - 4.5);
      box.group.appendChild(box.text);
    }
    box.text.setAttribute("x", x + 3);
    box.text.textContent = name;
  }
  function zoom(to) {
    var right = to.x + to.width, factor = whole.width / Math.max(to.width, 0.01);
    boxes.forEach(function (box) {
      var middle = box.x + box.width / 2, x, width;
      if (box.y > to.y) {
        // A box below the zoomed one: shown if it is one of its callers.
        var holds = box.x - 0.06 <= to.x && box.x + box.width + 0.06 >= right;
        box.group.style.display = holds ? "" : "none";
        x = whole.x; width = whole.width;
      } else {
        box.group.style.display = middle >= to.x && middle <= right ? "" : "none";
        x = whole.x + (box.x - to.x) * factor; width = box.width * factor;
      }
      box.group.style.opacity = box.y > to.y ? 0.55 : 1;
      box.box.setAttribute("x", x);
      box.box.setAttribute("width", width);
      label(box, x, width);
    });
  }
  function word(x, anchor, text, act) {
    var element = document.createElementNS(space, "text");
    element.setAttribute("class", "fa act");
    element.setAttribute("x", x);
    element.setAttribute("y", 18);
    element.setAttribute("font-size", "12");
    element.setAttribute("text-anchor", anchor);
    element.textContent = text;
    if (act) { element.addEventListener("click", act); }
    svg.appendChild(element);
    return element;
  }
  var end = whole.x + whole.width;
  var reset = word(end - 70, "end", "", function () { zoom(whole); reset.textContent = ""; });
  var found = word(end, "end", "search (/)", search);
  function search() {
    var wanted = window.prompt("Functions with (a regular expression):", "");
    if (wanted === null) { return; }
    var expression;
    try { expression = new RegExp(wanted, "i"); } catch (error) { window.alert(error.message); return; }
    // Of hits above each other only the lowest counts.
    var spans = [];
    boxes.forEach(function (box) {
      var hit = wanted !== "" && expression.test(box.name);
      box.group.classList.toggle("hit", hit);
      if (hit) { spans.push([box.x, box.x + box.width]); }
    });
    spans.sort(function (one, other) { return one[0] - other[0] || other[1] - one[1]; });
    var sum = 0, until = -1;
    spans.forEach(function (span) {
      if (span[1] > until) { sum += span[1] - Math.max(span[0], until); until = span[1]; }
    });
    found.textContent = wanted === "" ? "search (/)" : (100 * sum / whole.width).toFixed(1) + " % found";
  }
  boxes.forEach(function (box) {
    box.group.addEventListener("click", function () {
      zoom(box);
      reset.textContent = "whole (Esc)";
    });
  });
  window.addEventListener("keydown", function (event) {
    if (event.key === "/") { event.preventDefault(); search(); }
    if (event.key === "Escape") { zoom(whole); reset.textContent = ""; }
  });
})();
