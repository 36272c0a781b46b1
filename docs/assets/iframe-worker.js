// A browser runs no worker of a page that was opened from disk; the search of these pages needs one.
// There, and only there, its script runs in a hidden frame instead, and is asked the same way.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.scope = frame.contentWindow;
    const page = this.scope.document;
    page.open();
    page.write("<!doctype html><html><head></head><body></body></html>");
    page.close();
    this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.ready = new Promise((done) => {
      const script = page.createElement("script");
      script.src = url;
      script.onload = done;
      page.body.append(script);
    });
  }

  postMessage(data) {
    this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })));
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
