// The conversation on the page. Texts are put in as text only: whatever a model says, it stays words.

import { tintOf } from "./tint.js";

// How far above its end the log may stand and still be taken to follow it.
const NEAR_PIXELS = 40;

export class Log {
  #root = document.getElementById("log");
  #answer = null;

  say(text) {
    this.#add("user", "You").append(text);
    this.#root.scrollTop = this.#root.scrollHeight;
  }

  // An answer begins. Screen readers are told of it as a whole, when it ends.
  begin() {
    this.#root.setAttribute("aria-busy", "true");
    this.#answer = this.#add("assistant", "Model");
    this.#answer.parentElement.classList.add("open");
    this.#follow(() => {});
  }

  // More of the answer; source "" for what the model said unprompted.
  more(text, source) {
    this.#follow(() => {
      const last = this.#answer.lastChild;
      if (last && (last.dataset.source ?? "") === source) last.firstChild.appendData(text);
      else this.#answer.append(run(text, source));
    });
  }

  // note: why it ended, where that is not plain to see.
  end(note) {
    this.#follow(() => {
      const article = this.#answer.parentElement;
      article.classList.remove("open");
      if (note) article.append(paragraph("note", note));
    });
    this.#answer = null;
    this.#root.setAttribute("aria-busy", "false");
  }

  get text() {
    return this.#answer?.textContent ?? "";
  }

  // Take away what was shown last, down to so many turns.
  keep(n) {
    while (this.#root.children.length > n) this.#root.lastElementChild.remove();
  }

  #add(role, who) {
    const article = document.createElement("article");
    article.className = role;
    article.append(paragraph("who", who), paragraph("text", ""));
    this.#root.append(article);
    return article.lastElementChild;
  }

  #follow(change) {
    const root = this.#root;
    const follows = root.scrollHeight - root.scrollTop - root.clientHeight < NEAR_PIXELS;
    change();
    if (follows) root.scrollTop = root.scrollHeight;
  }
}

function run(text, source) {
  const span = document.createElement("span");
  if (source) {
    span.dataset.source = source;
    span.className = `guess tint-${tintOf(source)}`;
  }
  span.append(document.createTextNode(text));
  return span;
}

function paragraph(kind, text) {
  const made = document.createElement("p");
  made.className = kind;
  made.textContent = text;
  return made;
}
