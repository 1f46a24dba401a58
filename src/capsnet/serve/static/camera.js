// The camera over the board: one button opens it and then takes the picture. Nothing is recorded.

export class Camera {
  constructor({ video, button, onPicture, onProblem }) {
    Object.assign(this, { video, button, onPicture, onProblem, stream: null });
    button.addEventListener("click", () => (this.stream ? this.take() : this.open()));
  }

  // Only pages from this machine or with TLS get one.
  get available() {
    return Boolean(navigator.mediaDevices?.getUserMedia);
  }

  async open() {
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    } catch {
      this.onProblem("The camera is not available: there is none, or the browser was not allowed to use it.");
      return;
    }
    this.video.srcObject = this.stream;
    this.video.hidden = false;
    this.button.textContent = "Take the picture";
    await this.video.play();
  }

  // The square in the middle, as it is shown.
  take() {
    const { videoWidth: width, videoHeight: height } = this.video;
    const side = Math.min(width, height);
    if (!side) return;
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = Math.min(side, 800);
    canvas.getContext("2d").drawImage(this.video, (width - side) / 2, (height - side) / 2, side, side, 0, 0, canvas.width, canvas.height);
    this.close();
    canvas.toBlob((blob) => this.onPicture(blob));
  }

  close() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = null;
    this.video.srcObject = null;
    this.video.hidden = true;
    this.button.textContent = "Camera";
  }
}
