// The viewer in one file: a model and what draws it. It makes no request.
import { cameraOf, fragmentOf, homeOf, move, ofPicture, placeOfFragment, placeOnPath, turn, zoom, type Place } from "./camera";
import { control } from "./controls";
import { Choice } from "./choice";
import { readModel } from "./model";
import { Pace, type Drawn } from "./pace";
import { Renderer, type Channel } from "./renderer";

const pathSeconds = 15; // of the suggested path
const addressMs = 400; // after the last move, before the address names the camera
const leastWeighedMs = 16; // of a picture from which the time of a whole one is told
const mostRatio = 2; // device pixels of a pixel of the page

const element = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;

function fail(error: unknown) {
  const text = element("failure");
  text.textContent = error instanceof Error ? error.message : String(error);
  text.hidden = false;
  element("bar").hidden = true;
}

async function start() {
  const model = await readModel(element("scene"), document.getElementById("baked"), document.getElementById("model"));
  const { header } = model;
  const canvas = element<HTMLCanvasElement>("view");
  const renderer = new Renderer(canvas, model);
  canvas.addEventListener("webglcontextlost", () => fail(new Error("The graphics device was taken away. Load the page again.")));

  const home = homeOf(header);
  const aspect = () => canvas.width / canvas.height;
  let place: Place = home;
  let channel: Channel = 0;
  let isFlying = false;
  let photograph = -1;
  let playedAt = -1; // when the path began; -1: it is not played
  let addressTimer: ReturnType<typeof setTimeout> | undefined;
  let written = ""; // the fragment that this page wrote

  const fit = () => {
    const ratio = Math.min(mostRatio, devicePixelRatio);
    const { width, height } = canvas.getBoundingClientRect();
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
  };
  const onDrawn = (drawn: Drawn) => {
    element("readout").textContent = `${drawn.width} × ${drawn.height}, ${drawn.ms.toFixed(0)} ms${choice.says}`;
    canvas.dataset.whole = String(drawn.isWhole);
    if (drawn.isWhole || drawn.ms >= leastWeighedMs) choice.weigh((drawn.ms * canvas.width * canvas.height) / (drawn.width * drawn.height));
  };
  fit();
  const pace = new Pace(canvas, renderer, () => ({ camera: cameraOf(place, aspect()), channel }), onDrawn);

  const press = (id: string, isOn: boolean) => element(id).setAttribute("aria-pressed", String(isOn));
  const shown = () => {
    canvas.dataset.whole = "false";
    pace.changed();
  };
  const choice = new Choice(model, renderer, (kind, hasBoth) => {
    press("baked-kind", kind === "baked");
    element("baked-kind").hidden = !hasBoth;
    pace.restart();
    shown();
  });
  const show = (next: Place) => {
    place = next;
    shown();
    clearTimeout(addressTimer);
    addressTimer = setTimeout(() => {
      written = fragmentOf(header, place, aspect());
      try {
        history.replaceState(null, "", written);
      } catch {
        location.hash = written; // some browsers, for files
      }
    }, addressMs);
  };
  const stop = () => {
    playedAt = -1;
    press("play", false);
  };
  const go = (next: Place) => {
    stop();
    show(next);
  };
  const readAddress = () => {
    const asked = location.hash === written ? null : placeOfFragment(header, location.hash, aspect());
    if (asked) go(asked);
    return asked !== null;
  };

  const playOn = () => {
    if (playedAt < 0) return;
    const seconds = (performance.now() - playedAt) / 1_000;
    show(placeOnPath(header, header.path.closed ? (seconds / pathSeconds) % 1 : seconds / pathSeconds));
    if (!header.path.closed && seconds > pathSeconds) return stop();
    requestAnimationFrame(playOn);
  };
  const play = () => {
    if (playedAt >= 0) return stop();
    playedAt = performance.now();
    press("play", true);
    playOn();
  };
  const jump = (by: number) => {
    const n = header.cameras.length;
    if (n === 0) return;
    photograph = photograph < 0 ? (by > 0 ? 0 : n - 1) : (photograph + by + n) % n;
    element("photograph").textContent = `${photograph + 1} of ${n}`;
    go(ofPicture(header, header.cameras[photograph]!));
  };
  const choose = (next: Channel) => {
    channel = next;
    press("depth", channel === 1);
    shown();
  };
  const setFlying = (isOn: boolean) => press("fly", (isFlying = isOn));
  const showHelp = () => press("explain", !(element("help").hidden = !element("help").hidden));
  const keys: Record<string, () => void> = {
    r: () => go(home),
    Home: () => go(home),
    f: () => setFlying(!isFlying),
    p: () => header.path.poses.length > 1 && play(),
    "[": () => jump(-1),
    "]": () => jump(1),
    "1": () => choose(0),
    "2": () => choose(1),
    b: () => choice.turn(),
    h: showHelp,
    "?": showHelp,
  };
  control(canvas, {
    turn: (right, up) => go(turn(place, header.up, isFlying, right, up)),
    pan: (right, up) => {
      const perPixel = (2 * cameraOf(place, aspect()).slopes[1]) / canvas.getBoundingClientRect().height;
      go(move(place, right * perPixel, up * perPixel, 0));
    },
    zoom: (factor) => go(isFlying ? move(place, 0, 0, 1 - 1 / factor) : zoom(place, factor)),
    fly: (right, up, forward) => go(move(place, right, up, forward)),
    key: (name) => {
      keys[name]?.();
      return name in keys;
    },
  });
  const buttons: Record<string, string> = { previous: "[", next: "]", play: "p", fly: "f", reset: "r", explain: "h" };
  for (const [id, key] of Object.entries(buttons)) element(id).addEventListener("click", () => keys[key]!());
  element("depth").addEventListener("click", () => choose(channel === 1 ? 0 : 1));
  element("baked-kind").addEventListener("click", () => keys.b!());
  element("baked-kind").hidden = !choice.hasBoth;
  element("photographs").hidden = header.cameras.length === 0;
  element("play").hidden = header.path.poses.length < 2;
  element("bar").hidden = false;

  addEventListener("hashchange", readAddress);
  addEventListener("resize", () => {
    fit();
    shown();
  });
  if (!readAddress()) shown();
  pace.begin(fail);
}

// The model is the last element, so that a file that was cut short can say so.
addEventListener("DOMContentLoaded", () => start().catch(fail));
