"""Import an engine's argument parsers without its dependencies: what is missing becomes an empty
stand-in.

Only imports that start in the engine's own modules are answered, so that everyone else still sees
what is missing.
"""

import hashlib
import importlib.abc
import importlib.machinery
import sys
import types


def stand_in(name):
    """A class that can be called, subscripted, decorated with and asked for attributes, all without
    effect."""

    class OfType(type):
        def __getattr__(cls, attribute):
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            return stand_in(attribute)

    def attribute_of(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return stand_in(attribute)()

    def call(self, *values, **named):
        return values[0] if len(values) == 1 and callable(values[0]) and not named else self

    def any_value(cls, *_):
        from pydantic_core import core_schema

        return core_schema.any_schema()

    return OfType(
        name,
        (),
        {
            "__init__": lambda self, *values, **named: None,
            "__getattr__": attribute_of,
            "__call__": call,
            "__class_getitem__": classmethod(lambda cls, item: cls),
            "__or__": lambda self, other: other,
            "__init_subclass__": classmethod(lambda cls, **named: None),
            "__ror__": lambda self, other: other,
            "__get_pydantic_core_schema__": classmethod(any_value),
        },
    )


# what is turned into text while an engine is imported
TURNED_INTO_TEXT = {
    "xxhash": dict.fromkeys(("xxh3_64", "xxh3_128", "xxh64", "xxh128"), hashlib.md5),
    "dill": {"dumps": lambda value: b""},
}


class MissingModule(types.ModuleType):
    __path__ = ()
    __version__ = "0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, stand_in(name))
        return self.__dict__[name]


class MissingModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what nobody else finds, for the modules of one engine."""

    def __init__(self, engine):
        self.engine = engine
        self.found = set()

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top == self.engine and not name.endswith(("._version", "._C")):
            return None
        if top not in self.found and self._importer() != self.engine:
            return None
        self.found.add(top)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    @staticmethod
    def _importer():
        frame = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        return frame.f_globals.get("__name__", "").partition(".")[0] if frame else ""

    def create_module(self, spec):
        module = MissingModule(spec.name)
        module.__dict__.update(TURNED_INTO_TEXT.get(spec.name, {}))
        return module

    def exec_module(self, module):
        pass


def install(engine):
    """Answer the engine's imports from now on."""
    sys.meta_path.append(MissingModules(engine))
