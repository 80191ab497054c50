// Which colour an accepted guess gets: a number, for which the style sheet has one. Drafters without a colour of their
// own share the others by name.

const OWN = { lookup: 1, suffix: 2, given: 3, recycle: 4, cascade: 5 };
const OTHERS = [6, 7, 8];

export function tintOf(source) {
  const sum = [...source].reduce((total, letter) => total + letter.codePointAt(0), 0);
  return OWN[source] ?? OTHERS[sum % OTHERS.length];
}
