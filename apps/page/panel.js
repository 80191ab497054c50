// What drafting did for the answer that is being made, or was made last. Drawn once a frame at most.

import { Bars } from "./bars.js";
import { Numbers } from "./numbers.js";
import { tintOf } from "./tint.js";
import { Tree } from "./tree.js";

export class Panel {
  #numbers = new Numbers();
  #bars = new Bars();
  #tree = new Tree();
  #why = document.getElementById("why");
  #legend = document.getElementById("legend");
  #rounds = null;

  clear() {
    this.#rounds = null;
    this.#numbers.clear();
    this.#bars.show([]);
    this.#tree.clear();
    this.#legend.replaceChildren();
    this.#why.textContent = "";
  }

  // Of the answer so far.
  rounds(rounds) {
    if (this.#rounds === null) requestAnimationFrame(() => this.#draw());
    this.#rounds = rounds;
  }

  // Of the whole answer.
  whole(timings, details) {
    this.#rounds = details.rounds;
    this.#draw();
    this.#numbers.whole(timings, details);
    this.#why.textContent = details.why;
  }

  #draw() {
    const rounds = this.#rounds;
    if (rounds === null) return;
    this.#rounds = null;
    this.#numbers.rounds(rounds);
    this.#bars.show(rounds.by_depth);
    this.#tree.show(rounds.last);
    this.#legend.replaceChildren(...rounds.by_source.map((one) => legend(one.source)));
  }
}

function legend(source) {
  const item = document.createElement("li");
  const sample = document.createElement("span");
  sample.className = `guess tint-${tintOf(source)}`;
  sample.textContent = source;
  item.append(sample);
  return item;
}
