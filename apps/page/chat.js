// A conversation as data: what was said, in order. Knows no page and no server.

export class Chat {
  #turns = [];

  get turns() {
    return this.#turns;
  }

  get isEmpty() {
    return this.#turns.length === 0;
  }

  get lastRole() {
    return this.#turns.at(-1)?.role ?? "";
  }

  say(content) {
    this.#turns.push({ role: "user", content });
  }

  answer(content) {
    this.#turns.push({ role: "assistant", content });
  }

  // Take the answer away, so that the question stands unanswered.
  forgetAnswer() {
    if (this.lastRole === "assistant") this.#turns.pop();
  }

  // Take the last question away with its answer. Returns the question.
  undo() {
    this.forgetAnswer();
    return this.#turns.pop()?.content ?? "";
  }

  clear() {
    this.#turns = [];
  }

  // As the server reads them.
  messages(system) {
    return system ? [{ role: "system", content: system }, ...this.#turns] : [...this.#turns];
  }
}
