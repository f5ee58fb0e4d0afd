// Whether nerfd answers. One for the whole page: the banner shows it, and streams wait for it.
class Connection {
  isLost = $state(false);
  private waiting = new Set<() => void>();

  answered() {
    this.isLost = false;
    for (const resume of this.waiting) resume();
  }

  lost() {
    this.isLost = true;
  }

  // Resolves at the next answer, or after `ms`.
  async answerWithin(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const resume = () => {
        clearTimeout(timer);
        this.waiting.delete(resume);
        resolve();
      };
      const timer = setTimeout(resume, ms);
      this.waiting.add(resume);
    });
  }
}

export const connection = new Connection();
