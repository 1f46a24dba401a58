// What the page says: of digits, other drawings, photographs or stereo pairs, as the weights' card tells.

// How pictures come in: "drawing", "pair" (two digits over each other), "photograph" or "stereo".
export function kindOf(model, two) {
  const channels = model.picture_shape[0];
  if (channels === 2) return "stereo";
  if (channels === 1 && model.preprocessing.light_on_dark) return two ? "pair" : "drawing";
  return "photograph";
}

const hasDigits = (model) => model.class_names.every((name) => /^\d$/.test(name));

export function wordsFor(model, two) {
  const kind = kindOf(model, two);
  const [pair, drawn] = [kind === "pair", kind === "drawing" || kind === "pair"];
  const thing = hasDigits(model) ? "digit" : "picture";
  return {
    kind,
    drawn,
    step: drawn ? "Draw" : "Show",
    board: drawn ? "Drawing board" : "The picture",
    invitation: {
      drawing: thing === "digit" ? "Draw a digit here" : "Draw here",
      pair: "Draw two digits here, one over the other",
      photograph: "Drop a picture here, or open one",
      stereo: "Drop a stereo pair here: one picture file with the left eye's view and the right eye's side by side",
    }[kind],
    empty: pair ? "Draw two digits on top of each other." : drawn ? "Nothing is drawn yet." : "There is no picture yet.",
    help: {
      photograph: "You can also paste a picture. The network gets the whole of it, as small as it is shown here.",
      stereo: "These weights compare two eyes' views: photographs of one camera don't fit.",
    }[kind],
    samples: `Or take a test ${thing === "digit" ? "digit" : "image"}`,
    measure: model.has_capsules ? "capsule length" : "score",
  };
}

export function verdict(model, words, prediction, indices) {
  if (!prediction) return words.empty;
  const names = indices.map((index) => model.class_names[index]);
  const scores = names.map((name) => prediction.scores[name].toFixed(2));
  const capsules = model.has_capsules;
  if (!prediction.likely) return `This is probably ${hasDigits(model) ? "not a digit" : "none of the classes"}: ${prediction.reason}.`;
  if (names.length > 1) return `The ${capsules ? "capsules" : "scores"} of ${names.join(" and ")} are the ${capsules ? "longest" : "highest"}: ${scores.join(" and ")}.`;
  return `The ${capsules ? "capsule" : "score"} of ${names[0]} is the ${capsules ? "longest" : "highest"}: ${scores[0]} of at most 1.`;
}

export function facts(model) {
  const { score } = model;
  const error = score.int8_test_error_percent ?? score.test_error_percent ?? score.test_pair_error_percent;
  const parts = [model.name];
  if (model.encoder_parameters) parts.push(`${model.encoder_parameters.toLocaleString("en")} parameters`);
  if (error !== undefined && error !== null) parts.push(`${Number(error.toFixed(2))} % errors on the test images of ${model.dataset}`);
  return parts.join(" · ");
}
