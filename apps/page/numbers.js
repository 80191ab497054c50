// The figures of an answer: while it is made from the rounds so far, at its end from the whole.

const NAMES = {
  per_pass: "Tokens per pass",
  accepted: "Guesses accepted",
  rate: "Tokens per second",
  speedup: "Against plain decoding",
  drafter: "Drafter",
  passes: "Passes",
  first: "First token",
  seed: "Seed",
};
const NOTHING = "–";

export class Numbers {
  #values = {};

  constructor() {
    const list = document.getElementById("numbers");
    for (const [name, label] of Object.entries(NAMES)) {
      const row = document.createElement("div");
      const [term, value] = ["dt", "dd"].map((tag) => row.appendChild(document.createElement(tag)));
      term.textContent = label;
      value.dataset.name = name;
      this.#values[name] = value;
      list.append(row);
    }
    this.clear();
  }

  clear() {
    this.#show(Object.fromEntries(Object.keys(NAMES).map((name) => [name, NOTHING])));
  }

  rounds(rounds) {
    const { n_drafted: drafted, n_accepted: accepted } = rounds;
    const share = drafted ? ` (${Math.round((100 * accepted) / drafted)} %)` : "";
    this.#show({
      per_pass: rounds.tokens_per_pass.toFixed(2),
      accepted: drafted ? `${accepted} of ${drafted}${share}` : "nothing drafted",
      passes: `${rounds.n_passes}`,
      drafter: rounds.by_source.map((one) => `${one.source} (${one.n_accepted})`).join(", ") || "none yet",
    });
    if (rounds.tokens_per_second !== null) this.#show({ rate: rounds.tokens_per_second.toFixed(1) });
  }

  whole(timings, details) {
    this.#show({
      rate: timings.predicted_per_second.toFixed(1),
      speedup: details.speedup === null ? "not measured" : `${details.speedup.toFixed(2)} ×`,
      drafter: details.drafter || "none",
      first: `${Math.round(details.first_token_ms)} ms`,
      seed: `${details.seed}${details.exact ? ", exact" : ""}`,
    });
  }

  #show(texts) {
    for (const [name, text] of Object.entries(texts)) this.#values[name].textContent = text;
  }
}
