"""`capsnet analyze`: what networks cost, and what their capsules encode."""

from tyro.extras import SubcommandApp

from capsnet.cli import cost


def build_app() -> SubcommandApp:
    """The commands under `capsnet analyze`."""
    app = SubcommandApp()
    app.command(name="cost")(cost.cost)
    return app
