// What the form says about answers, as fields of a request. What was left empty is the server's to choose.

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];

export class Settings {
  #form = document.getElementById("options");
  #details = document.getElementById("settings");

  constructor() {
    this.#form.addEventListener("submit", (event) => event.preventDefault());
  }

  get system() {
    return this.#form.elements.system.value.trim();
  }

  // Whether the numbers are possible ones; else the first that is not is shown.
  check() {
    if (this.#form.checkValidity()) return true;
    this.#details.open = true;
    this.#form.reportValidity();
    return false;
  }

  fields() {
    const fields = {};
    for (const name of NUMBERS) {
      const field = this.#form.elements[name];
      if (field.value !== "") fields[name] = field.valueAsNumber;
    }
    return { ...fields, edgespec: { rounds: true, ...this.#own() } };
  }

  #own() {
    const { draft, exact } = this.#form.elements;
    return { ...(draft.value && { draft: draft.value }), ...(exact.value && { exact: exact.value === "true" }) };
  }
}
