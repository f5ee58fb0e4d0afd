// Keys, mouse and fingers.
import { Gesture } from "../src/lib/gesture";

export interface Actions {
  turn(right: number, up: number): void; // radians
  pan(right: number, up: number): void; // pixels
  zoom(factor: number): void;
  fly(right: number, up: number, forward: number): void; // in distances to the center
  key(name: string): boolean; // false for a key that means nothing
}

const radiansPerPixel = 0.008;
const flightPerSecond = 0.7; // in distances to the center
const turns: Record<string, [number, number]> = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.08], ArrowDown: [0, -0.08] };
const flights: Record<string, [number, number, number]> = { w: [0, 0, 1], s: [0, 0, -1], a: [-1, 0, 0], d: [1, 0, 0], q: [0, -1, 0], e: [0, 1, 0] };

export function control(canvas: HTMLCanvasElement, actions: Actions) {
  const gesture = new Gesture();
  let isPanning = false;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 && event.button !== 2) return;
    canvas.setPointerCapture(event.pointerId);
    gesture.down(event);
    isPanning = event.button === 2 || event.shiftKey;
  });
  canvas.addEventListener("pointermove", (event) => {
    const moved = gesture.move(event);
    if (!moved) return;
    if (isPanning || gesture.nPointers > 1) actions.pan(-moved.right, moved.down);
    else actions.turn(-moved.right * radiansPerPixel, moved.down * radiansPerPixel);
    if (moved.scale !== 1) actions.zoom(moved.scale);
  });
  for (const type of ["pointerup", "pointercancel"] as const) canvas.addEventListener(type, (event) => gesture.up(event));
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("dblclick", () => actions.key("r"));
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      actions.zoom(Math.exp(-event.deltaY * 0.0012));
    },
    { passive: false },
  );

  const held = new Set<string>();
  let flewAt = 0;
  const flyOn = () => {
    if (held.size === 0) return;
    const now = performance.now();
    const way = flightPerSecond * Math.min(0.2, (now - flewAt) / 1_000);
    flewAt = now;
    const sum = (axis: number) => [...held].reduce((total, key) => total + flights[key]![axis]!, 0) * way;
    actions.fly(sum(0), sum(1), sum(2));
    requestAnimationFrame(flyOn);
  };
  const nameOf = (event: KeyboardEvent) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = nameOf(event);
    const isButton = event.target instanceof HTMLButtonElement;
    if (turns[key]) actions.turn(...turns[key]);
    else if (flights[key]) {
      if (!held.has(key)) held.add(key);
      if (!event.repeat && held.size === 1) {
        flewAt = performance.now() - 30; // a tap moves, too
        flyOn();
      }
    } else if (key === "+" || key === "=") actions.zoom(1.12);
    else if (key === "-") actions.zoom(1 / 1.12);
    else if ((isButton && (key === " " || key === "Enter")) || !actions.key(key)) return;
    event.preventDefault();
  });
  addEventListener("keyup", (event) => held.delete(nameOf(event)));
  addEventListener("blur", () => held.clear());
}
