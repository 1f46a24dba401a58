"""All commands, by name."""

from tyro.extras import SubcommandApp

from capsnet.cli import (
    analyze,
    compare,
    convert,
    data,
    ensemble,
    evaluate,
    export,
    models,
    predict,
    report,
    reproduce,
    serve,
    train,
    trials,
)


def build_app() -> SubcommandApp:
    """The parser of the whole command line."""
    app = SubcommandApp()
    app.command(name="models")(models.models)
    app.command(data.build_app(), name="data", help="List, fetch and look at data sets.")
    app.command(name="train")(train.train)
    app.command(name="trials")(trials.trials)
    app.command(name="compare")(compare.compare)
    app.command(name="ensemble")(ensemble.ensemble)
    app.command(name="eval")(evaluate.evaluate)
    app.command(name="predict")(predict.predict)
    app.command(name="convert")(convert.convert)
    app.command(name="serve")(serve.serve)
    app.command(
        analyze.build_app(), name="analyze", help="What networks cost and what their capsules encode."
    )
    app.command(name="report")(report.report)
    app.command(name="reproduce")(reproduce.reproduce)
    app.command(name="export")(export.export)
    return app
