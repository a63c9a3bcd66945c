"""What every benchmark needs: a private server, the peers' environment and processes, figures and tables."""
