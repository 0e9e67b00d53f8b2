"""Steps from each schema of the database to the next one, which Alembic takes in order."""
