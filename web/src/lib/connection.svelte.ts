// Whether nerfd answers. One for the whole page: the banner shows it, and streams wait for it.
class Connection {
  isLost = $state(false);
  private waiting: (() => void)[] = [];

  answered() {
    this.isLost = false;
    for (const resume of this.waiting.splice(0)) resume();
  }

  lost() {
    this.isLost = true;
  }

  // Resolves at the next answer, or after `ms`.
  async answerWithin(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

export const connection = new Connection();
