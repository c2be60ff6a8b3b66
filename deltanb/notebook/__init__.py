"""How things look: plain text, HTML and MIME bundles of every object. These modules only read.

``views`` says what is shown (one :class:`~deltanb.notebook.views.model.View` per object), ``text`` and
``html`` say how, ``conflict`` has the two-sided picture, ``bundle`` puts the forms together.
"""
