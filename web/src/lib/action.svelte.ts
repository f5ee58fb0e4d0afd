import { explain } from "./api";

// What the buttons of a view start: one at a time; its error is shown until the next one begins.
export class Action {
  isRunning = $state(false);
  failure = $state("");

  async run(work: () => Promise<unknown>): Promise<void> {
    this.isRunning = true;
    this.failure = "";
    try {
      await work();
    } catch (error) {
      this.failure = explain(error);
    } finally {
      this.isRunning = false;
    }
  }
}
