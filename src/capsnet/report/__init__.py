"""The paper's tables and figures, ours beside them: one page from results/ and the weights that are present."""
