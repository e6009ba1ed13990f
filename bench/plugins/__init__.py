"""The plugins that come with the package, and the catalog that finds every plugin."""
