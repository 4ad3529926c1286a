// A range image of the scan as a picture: a channel in colours, or the mask.
import { post } from "./api.js";
import { rampOf } from "./colours.js";
import { byId, whole } from "./dom.js";
import { rowsOf } from "./scan.js";
import { quantiles } from "./spread.js";

const MASK = "mask";

let presets = [];
let shown = null; // the last answer: { names, planes, mask, height, width }

// Offers those presets of `all` that are for range_image.
export function listImages(all) {
  presets = all.filter(({ operation }) => operation === "range_image");
  byId("image").replaceChildren(new Option("none", ""), ...presets.map(({ name }) => new Option(name, name)));
}

// Chooses a preset, or none if it does not exist. `others`: other parameters, as in a query.
export function chooseImage(name, channel, others) {
  const preset = presets.find((each) => each.name === name);
  byId("image").value = preset?.name ?? "";
  byId("image-doc").textContent = preset?.description ?? "";
  byId("image-others").value = others ?? "";
  offerChannels(preset ? [...preset.parameters.channels, MASK] : [], channel);
  byId("image-more").hidden = !preset;
  if (!preset) showImage(null);
}

export const image = () => byId("image").value;

// The parameters of the request; null if no image is chosen.
export const imageParameters = () => image() ? {
  preset: image(), ...Object.fromEntries(new URLSearchParams(byId("image-others").value.trim())),
  outputs: "range_image,range_mask",
} : null;

function offerChannels(names, channel) {
  byId("channel").replaceChildren(...names.map((name) => new Option(name, name)));
  byId("channel").value = names.includes(channel) ? channel : names[0] ?? "";
}

// `used`: the parameters in the answer of voxelize, which describe the scan's bytes.
export async function askImage(bytes, used) {
  const { tensors, metadata } = await post("range_image", { ...rowsOf(used), ...imageParameters() }, bytes);
  const { range_image: { data, shape: [, , height, width] }, range_mask: { data: mask } } = tensors;
  const { channels: names, means, stds } = metadata.parameters, size = height * width;
  const planes = names.map((_, at) => data.subarray(at * size, (at + 1) * size)
    .map((value) => means ? value * stds[at] + means[at] : value)); // undoes the preset's means and stds
  offerChannels([...names, MASK], byId("channel").value);
  showImage({ names, planes, mask, height, width });
}

// Draws the chosen channel; null hides the picture.
export function showImage(answer = shown) {
  shown = answer;
  byId("picture").hidden = !answer;
  if (!answer) return;
  const { names, planes, mask, height, width } = answer;
  const channel = byId("channel").value, isMask = channel === MASK;
  const values = isMask ? mask : planes[names.indexOf(channel)];
  const pixels = [...mask.keys()].filter((i) => mask[i]);
  const [low, high] = isMask ? [0, 1] : quantiles(pixels.length, (i) => values[pixels[i]], [0.02, 0.98]);
  const ramp = rampOf(channel), last = ramp.length / 4 - 1;
  const picture = new ImageData(width, height);
  for (let i = 0; i < mask.length; i++) {
    if (!mask[i] && !isMask) continue; // transparent
    const part = high > low ? (values[i] - low) / (high - low) : 0;
    const step = Math.round(last * Math.min(1, Math.max(0, part)));
    picture.data.set(ramp.subarray(4 * step, 4 * step + 4), 4 * i);
  }
  Object.assign(byId("pixels"), { width, height }).getContext("2d").putImageData(picture, 0, 0);
  const scale = isMask ? "" : ` from ${+low.toPrecision(3)} (dark) to ${+high.toPrecision(3)} (bright);`;
  byId("picture-doc").textContent =
    `${channel}:${scale} ${whole(pixels.length)} of ${height} × ${whole(width)} pixels have a point`;
}
