"""Knowledge bases: folders of documents made searchable, and passages of them found again."""
