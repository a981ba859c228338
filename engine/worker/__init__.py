"""The worker process: loads one model and answers what comes over its pipe.

reader thread    pipe -> inbox; counts drafts, passes cancels on, ends the process with its parent
desk thread      Submit -> template, tokens -> Request; reads saved states
owner thread     load, then Engine.step after step, and idle work between
"""
