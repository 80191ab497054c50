// Acceptance by depth: a column for each number of tokens ahead, as high as the share of its guesses that came true.

export class Bars {
  #root = document.getElementById("bars");

  show(depths) {
    while (this.#root.children.length > depths.length) this.#root.lastElementChild.remove();
    while (this.#root.children.length < depths.length) this.#root.append(column());
    depths.forEach((depth, i) => fill(this.#root.children[i], i + 1, depth));
  }
}

function column() {
  const made = document.createElement("li");
  for (const kind of ["track", "ahead", "share unseen"]) {
    made.append(Object.assign(document.createElement("span"), { className: kind }));
  }
  made.firstChild.append(document.createElement("span"));
  return made;
}

function fill(column, ahead, { n_tried: tried, n_accepted: accepted }) {
  const share = tried ? Math.round((100 * accepted) / tried) : 0;
  const [track, number, text] = column.children;
  track.firstChild.style.height = `${share}%`;
  number.textContent = `${ahead}`;
  text.textContent = `: ${share} %`;
  column.title = `${accepted} of ${tried} guesses ${ahead} ${ahead === 1 ? "token" : "tokens"} ahead came true: ${share} %`;
}
