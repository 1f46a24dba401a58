"""All commands, by name."""

from tyro.extras import SubcommandApp

from capsnet.cli import convert, data, evaluate, models, predict, train


def build_app() -> SubcommandApp:
    """The parser of the whole command line."""
    app = SubcommandApp()
    app.command(models.models, name="models")
    app.command(data.build_app(), name="data", help="List, fetch and look at data sets.")
    app.command(train.train, name="train")
    app.command(evaluate.evaluate, name="eval")
    app.command(predict.predict, name="predict")
    app.command(convert.convert, name="convert")
    return app
