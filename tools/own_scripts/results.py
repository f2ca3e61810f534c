def record(recipe, bare, proved, report):
    import json
    open(f"/tmp/scripts/logs/{recipe.name}.json","w").write(json.dumps(report, indent=1))
