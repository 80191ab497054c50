// The server's key: asked for when it is wanted, and kept as long as this tab is open.

const NAME = "edgespec-key";

export class Key {
  #dialog = document.getElementById("door");
  #field = document.getElementById("key");
  #why = document.getElementById("door-why");

  constructor() {
    document.getElementById("leave").addEventListener("click", () => this.#dialog.close());
  }

  get value() {
    return sessionStorage.getItem(NAME) ?? "";
  }

  // Whether one was given.
  async ask() {
    this.#why.textContent = this.value ? "The key it was given is not its own." : "It was started with one.";
    this.#field.value = "";
    this.#dialog.returnValue = "";
    this.#dialog.showModal();
    let given = "";
    const take = () => (given = this.#field.value.trim());
    this.#dialog.addEventListener("submit", take, { once: true });
    await new Promise((over) => this.#dialog.addEventListener("close", over, { once: true }));
    this.#dialog.removeEventListener("submit", take);
    if (given) sessionStorage.setItem(NAME, given);
    return given !== "";
  }
}
