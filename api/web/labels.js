// Texts at places of the scene, over the canvas. Of two texts that overlap, the one with the lower score is hidden.
import { element } from "./dom.js";

const MOST = 100; // texts, those with the highest scores

const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

export class Labels {
  constructor(layer) {
    this.layer = layer;
    this.labels = [];
  }

  // [{ text, place, score }]
  set(labels) {
    this.labels = [...labels].sort((a, b) => b.score - a.score).slice(0, MOST);
    this.layer.replaceChildren(...this.labels.map(({ text }) => element("span", { textContent: text })));
    for (const [i, label] of this.labels.entries()) {
      const { offsetWidth: width, offsetHeight: height } = this.layer.children[i];
      Object.assign(label, { width, height });
    }
  }

  // project(place) gives x and y from -1 to 1, or null behind the eye.
  draw(project) {
    const { clientWidth, clientHeight } = this.layer;
    const taken = [];
    for (const [i, { place, width, height }] of this.labels.entries()) {
      const at = project(place);
      const left = Math.round((clientWidth * (1 + at?.[0])) / 2 - width / 2);
      const top = Math.round((clientHeight * (1 - at?.[1])) / 2 - height);
      const area = { left, top, right: left + width, bottom: top + height };
      const free = at && !taken.some((other) => overlap(area, other));
      if (free) taken.push(area);
      const { style } = this.layer.children[i];
      style.visibility = free ? "visible" : "hidden";
      if (free) style.transform = `translate(${left}px, ${top}px)`;
    }
  }
}
