"""Models in runtimes: each file turns a model into something callable on prepared inputs."""
