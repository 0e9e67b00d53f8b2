"""What moved: profiles of the functions of a call, by sampling, and how often each of them is called."""
