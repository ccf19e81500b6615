// Search in a site that is opened from a folder: a browser starts no worker from a file, so the script of the worker
// runs in a hidden frame.  The theme loads this first; the name is the one that its plugin "offline" looks for.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inner = frame.contentWindow;
      this.waiting = [];
      this.inner = null;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => this.load(inner, each)), Promise.resolve());
      this.load(inner, url).then(() => {
        this.inner = inner;
        this.waiting.forEach((data) => this.postMessage(data));
      });
    }
    load(inner, url) {
      return new Promise((done, failed) => {
        const script = inner.document.createElement("script");
        Object.assign(script, { src: new URL(url, location.href), onload: done, onerror: failed });
        inner.document.body.appendChild(script);
      });
    }
    postMessage(data) {
      if (this.inner) this.inner.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
    terminate() {}
  };
}
