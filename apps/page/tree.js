// A draft as a drawing: a row for each guess, a column for each branch. Accepted guesses are filled. Knows no server.

import { tintOf } from "./tint.js";

const SVG = "http://www.w3.org/2000/svg";
const ROW = 22;
const COLUMN = 18;
const MARGIN = 12;
const RADIUS = 5;
const WIDTH = 300;
// Further branches share the last column, so that texts keep their room.
const MOST_COLUMNS = 9;
const VISIBLE_SPACES = { " ": "·", "\n": "↵", "\t": "⇥", "\r": "␍" };

export class Tree {
  #root = document.getElementById("tree");
  #caption = document.getElementById("node");
  #drawn = "";
  #told = "";

  constructor() {
    this.#root.addEventListener("keydown", (event) => this.#walk(event));
  }

  clear() {
    this.#drawn = "";
    this.#root.replaceChildren();
    this.#tell("");
  }

  // tree: {nodes: [{text, parent, accepted, source}], next}, parents before children.
  show(tree) {
    const drawn = JSON.stringify(tree);
    if (!tree || drawn === this.#drawn || this.#root.contains(document.activeElement)) return;
    this.#drawn = drawn;
    this.#told = tree.next ? `The model then said “${visible(tree.next)}” by itself.` : "";
    this.#tell(this.#told);
    this.#root.replaceChildren(this.#drawing(tree.nodes));
  }

  #drawing(nodes) {
    const places = placed(nodes);
    const n_columns = Math.min(MOST_COLUMNS, 1 + Math.max(...places.map((place) => place.column)));
    const height = ROW * (nodes.length + 1);
    const svg = made("svg", { width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, role: "group" });
    svg.setAttribute("aria-label", `A draft of ${nodes.length}; arrow keys walk through it`);
    const start = { row: -1, column: 0 };
    svg.append(...nodes.map((node, i) => edge(places[node.parent] ?? start, places[i], node.accepted)));
    svg.append(made("circle", { class: "start", cx: x(0), cy: y(-1), r: RADIUS - 2 }));
    svg.append(...nodes.map((node, i) => this.#node(node, places[i], x(n_columns))));
    svg.querySelector(".node").setAttribute("tabindex", "0");
    return svg;
  }

  #node(node, place, left) {
    const kind = node.accepted ? `node accepted tint-${tintOf(node.source)}` : "node";
    const group = made("g", { class: kind, tabindex: "-1", role: "img", "aria-label": sentence(node, place) });
    group.dataset.row = place.row;
    group.append(
      made("rect", { class: "reach", x: 0, y: y(place.row) - ROW / 2, width: WIDTH, height: ROW }),
      made("circle", { cx: x(place.column), cy: y(place.row), r: RADIUS }),
      made("text", { x: left, y: y(place.row) + 4 }),
    );
    group.lastChild.textContent = visible(node.text);
    group.addEventListener("pointerenter", () => this.#tell(sentence(node, place)));
    group.addEventListener("pointerleave", () => this.#tell(this.#told));
    group.addEventListener("focus", () => this.#tell(sentence(node, place)));
    group.addEventListener("blur", () => this.#tell(this.#told));
    return group;
  }

  #tell(text) {
    this.#caption.textContent = text;
  }

  #walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const now = event.target.closest(".node");
    if (!step || !now) return;
    event.preventDefault();
    const next = this.#root.querySelector(`[data-row="${Number(now.dataset.row) + step}"]`);
    if (!next) return;
    now.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }
}

// Rows in the order of a walk that follows a branch to its end, the accepted one first; a branch keeps its column.
function placed(nodes) {
  const children = new Map([[-1, []], ...nodes.map((_, i) => [i, []])]);
  nodes.forEach((node, i) => children.get(node.parent).push(i));
  const places = new Array(nodes.length);
  let [row, columns] = [0, 0];
  const follow = (parent, column, depth) => {
    const ordered = children.get(parent).sort((a, b) => nodes[b].accepted - nodes[a].accepted || a - b);
    ordered.forEach((node, nth) => {
      const own = nth === 0 ? column : Math.min(MOST_COLUMNS - 1, ++columns);
      places[node] = { row: row++, column: own, depth };
      follow(node, own, depth + 1);
    });
  };
  follow(-1, 0, 1);
  return places;
}

function edge(from, to, accepted) {
  const bend = `Q ${x(to.column)} ${y(from.row)} ${x(to.column)} ${y(from.row) + ROW / 2}`;
  const d = `M ${x(from.column)} ${y(from.row)} ${bend} L ${x(to.column)} ${y(to.row)}`;
  return made("path", { class: accepted ? "edge accepted" : "edge", d });
}

function sentence(node, place) {
  const ahead = `${place.depth} ${place.depth === 1 ? "token" : "tokens"} ahead`;
  return `“${visible(node.text)}”, ${ahead}: ${node.accepted ? `accepted, a guess of ${node.source}` : "not accepted"}`;
}

function visible(text) {
  return text.replace(/[ \n\t\r]/g, (space) => VISIBLE_SPACES[space]) || "∅";
}

function x(column) {
  return MARGIN + COLUMN * column;
}

function y(row) {
  return ROW * (row + 1) + ROW / 2;
}

function made(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
