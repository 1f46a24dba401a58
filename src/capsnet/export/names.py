"""The names of inputs and outputs in exported files; without onnx, for those who only run them."""

IMAGES, SCORES, POSES, RECONSTRUCTION, CLASSES = "images", "scores", "poses", "reconstruction", "classes"
COUPLING, PARTS = "coupling", "parts"
