"""What does a step cost: token by token, in advance, dynamically, by a plan, over masked blocks?"""
